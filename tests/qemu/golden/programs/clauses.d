/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { trace("first"); }
proc:proc_example::exec-success { trace("second"); trace(2); }
proc:proc_example::exec-success /0/ { trace("never"); }
proc:proc_example::exec-success { }
