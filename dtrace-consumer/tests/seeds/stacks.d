/* Where memory is asked for: what --flamegraph draws. */
field:::malloc
{
	@[ustack()] = count();
}
