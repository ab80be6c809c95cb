/* -F | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { trace(stringof(arg0)); }
