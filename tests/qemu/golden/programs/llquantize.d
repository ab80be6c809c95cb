/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @ = llquantize(strlen(stringof(arg0)) * 37, 10, 0, 3, 10); }
