/* What happened, but only where it ended badly. */
field:::begin
{
	self->spec = speculation();
}

field:::begin
/self->spec/
{
	speculate(self->spec);
	printf("began %d\n", arg0);
}

field:::step
/self->spec/
{
	speculate(self->spec);
	printf("  step %d\n", arg0);
}

field:::end
/self->spec && arg1 != 0/
{
	commit(self->spec);
	self->spec = 0;
}

field:::end
/self->spec && arg1 == 0/
{
	discard(self->spec);
	self->spec = 0;
}

field:::end
/arg1 != 0/
{
	printf("failed %d: %d\n", arg0, arg1);
}
