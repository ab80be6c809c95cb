/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { seen[stringof(arg0)]++; }
proc:proc_example::exec-success /seen[stringof(arg0)] == 2/ { printf("again: %s\n", stringof(arg0)); }
