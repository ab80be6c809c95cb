/* -q | exec /usr/bin/true /usr/bin/true /usr/bin/true */
opte:::, xde:::
{
	@[probeprov, probename] = count();
}
