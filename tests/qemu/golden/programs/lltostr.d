/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { printf("%s %s\n", lltostr(strlen(stringof(arg0))), strjoin("n", lltostr(-5))); }
