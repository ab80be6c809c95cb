/* A whole struct, by its type. */
field:::packet
{
	print(*args[0]);
}
