/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("%c%c %d\n", *(char *)arg0, ((char *)arg0)[1], *(char *)(arg0 + 1)); }
