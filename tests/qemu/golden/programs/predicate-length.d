/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success /strlen(stringof(arg0)) > 8/ { trace(strlen(stringof(arg0))); }
