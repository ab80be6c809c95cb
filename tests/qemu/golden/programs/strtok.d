/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("%s", strtok(stringof(arg0), "/")); printf(" %s\n", strtok(NULL, "/")); }
