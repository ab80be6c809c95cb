/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @[dirname(stringof(arg0))] = quantize(strlen(stringof(arg0)) * 100); }
