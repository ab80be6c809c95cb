/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("%d %d\n", arg1 == arg1, args[0] == (char *)arg0); }
