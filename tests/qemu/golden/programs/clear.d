/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @[stringof(arg0)] = count(); }
END { clear(@); }
