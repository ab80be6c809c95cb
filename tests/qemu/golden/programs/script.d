/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
#pragma D option quiet
#pragma D option strsize=6

inline int LIMIT = 2;
int hits;

BEGIN
{
	printf("%-6s %s\n", "HIT", "PATH");
}

proc:proc_example::exec-success
/hits++ < LIMIT/
{
	printf("%-6d %s\n", hits, stringof(arg0));
}

END
{
	printf("%d of %d\n", LIMIT, hits);
}
