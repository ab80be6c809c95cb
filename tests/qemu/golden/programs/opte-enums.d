/* -q | exec /usr/bin/true */
enum sign { SIGN_MINUS = -4 };

opte:::gen-desc-fail
/args[2] == DIRECTION_OUT/
{
	printf("out: %d\n", args[2]);
}

opte:::gen-desc-fail
/args[2] == DIRECTION_IN/
{
	printf("in\n");
}

opte:::tcp-flow-state
/args[2] == TCP_STATE_SYN_SENT && args[3] == TCP_STATE_ESTABLISHED/
{
	@[(int)args[2], (int)args[3]] = count();
}

xde:::mcast-rx
{
	printf("%d %s\n", args[0], args[0] == OPTE_AF_INET6 ? "inet6" : "inet");
}

/* What is negative is not its constant before it has been made an int of arg2. */
xde:::mcast-tx
{
	printf("%d %d\n", (enum sign)-arg2 == SIGN_MINUS, (int)-arg2 == SIGN_MINUS);
}
