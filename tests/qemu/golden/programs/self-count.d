/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { self->n++; }
proc:proc_example::exec-success /self->n % 2 == 0/ { printf("%d: %s\n", self->n, stringof(arg0)); }
