/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success /stringof(arg0) == "/bin/two"/ { trace(*(int *)8); } proc:proc_example::exec-success { trace(stringof(arg0)); }
