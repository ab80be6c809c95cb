/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @[basename(stringof(arg0))] = sum(1000); }
END { normalize(@, 10); printa(@); denormalize(@); printa(@); }
