/* | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { @[sym(caller)] = count(); @m[mod(caller)] = count(); @f[func(caller)] = count(); }
