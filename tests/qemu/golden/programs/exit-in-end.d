/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { n++; }
END { printf("%d\n", n); exit(7); }
