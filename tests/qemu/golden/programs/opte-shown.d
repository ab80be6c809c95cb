/* -q | exec /usr/bin/true */
opte:::gen-desc-fail, opte:::gen-ht-fail, opte:::tcp-err
{
	printf("%s\n", strtok(stringof(arg4), "0123456789"));
}

xde:::copy-out-resp, xde:::hdlr-resp
{
	printf("%s\n", strtok(stringof(arg0), "0123456789"));
}
