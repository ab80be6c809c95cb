/* How much is read at once. */
field:::read-return
/arg0 > 0/
{
	@["bytes per read"] = quantize(arg0);
}
