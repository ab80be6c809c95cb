/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success /seen[stringof(arg0), 1]/ { printf("second %s\n", stringof(arg0)); seen[stringof(arg0), 1] = 0; }
proc:proc_example::exec-success { seen[stringof(arg0), 1] = ++n; }
END { printf("%d, %d\n", n, seen["/bin/two", 1]); }
