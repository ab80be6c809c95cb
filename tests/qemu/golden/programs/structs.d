/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
struct two {
	char first;
	char second;
};

proc:proc_example::exec-success
{
	this->two = (struct two *)alloca(sizeof (struct two));
	bcopy((void *)arg0, this->two, sizeof (struct two));
	printf("%c %c %d\n", this->two->first, this->two->second, sizeof (struct two));
}
