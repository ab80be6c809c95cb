/* -q | fire /bin/one /bin/two /usr/bin/three /bin/one */
proc:proc_example::exec-success { this->n = strlen(stringof(arg0)); printf("|%-16s|%16s|%5d|%-5d|%05d|%x|%#x|%o|%c|%%|\n", stringof(arg0), stringof(arg0), this->n, this->n, this->n, this->n, this->n, this->n, (char)(this->n + 64)); }
