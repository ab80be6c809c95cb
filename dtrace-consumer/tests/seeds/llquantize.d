/* Sizes over several powers of ten, in steps. */
field:::malloc
{
	@ = llquantize(arg0, 10, 0, 4, 20);
}
