/* Prints file names in capitals. */
field:::open
{
	printf("%s %s %d\n", toupper(copyinstr(arg0)), tolower("READ"), strlen(copyinstr(arg0)));
}
