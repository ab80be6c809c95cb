/* From begin to end, by thread; nothing that began before is counted. */
field:::begin
{
	self->since = timestamp;
	self->what = arg0;
}

field:::end
/self->since/
{
	@done[self->what == arg0 ? "ended as it began" : "mixed up"] = count();
	@negative["negative"] = sum(timestamp < self->since);
	self->since = 0;
	self->what = 0;
}

field:::end
{
	@left["left"] = sum(self->since);
}
