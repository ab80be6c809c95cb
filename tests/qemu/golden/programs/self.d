/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
self string last;
proc:proc_example::exec-success /self->last != ""/ { printf("%s after %s\n", stringof(arg0), self->last); }
proc:proc_example::exec-success { self->last = stringof(arg0); }
