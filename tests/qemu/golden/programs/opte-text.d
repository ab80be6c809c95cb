/* -q | exec /usr/bin/true /usr/bin/true */
opte:::rule-match
{
	printf("%s, %s\n", substr(stringof((char *)arg0), 0, arg1), substr(stringof((char *)arg2), 0, arg3));
	this->port = (char *)alloca(arg1 + 1);
	bcopy((void *)arg0, this->port, arg1);
	this->port[arg1] = 0;
	@[stringof(this->port)] = count();
}

opte:::rule-no-match
{
	printf("%s\n", memstr((void *)arg0, ' ', arg1 + 1));
}

xde:::mcast-tx
{
	tracemem(arg1, 16, arg2);
}
