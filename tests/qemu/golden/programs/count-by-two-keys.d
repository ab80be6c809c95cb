/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @runs[basename(stringof(arg0)), strlen(stringof(arg0))] = count(); }
