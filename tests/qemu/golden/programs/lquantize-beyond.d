/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @ = lquantize(strlen(stringof(arg0)) - 9, 0, 4); }
