/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("%d %s\n", ++n, stringof(arg0)); }
proc:proc_example::exec-success /n == 2/ { exit(3); }
