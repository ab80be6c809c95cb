/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("%s %s %s\n", basename(stringof(arg0)), dirname(stringof(arg0)), cleanpath(strjoin(stringof(arg0), "/../x"))); }
