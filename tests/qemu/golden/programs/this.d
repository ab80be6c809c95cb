/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success
{
	this->path = stringof(arg0);
	this->rest = substr(this->path, 1);
	this->first = substr(this->rest, 0, index(this->rest, "/"));
	printf("%s of %s\n", this->first, this->path);
}
