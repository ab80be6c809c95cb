/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @["length"] = lquantize(strlen(stringof(arg0)), 0, 20, 5); }
