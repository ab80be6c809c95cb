/* -q | sleep 60 */
BEGIN { n = 0; }
tick-100ms { n++; }
tick-100ms /n == 3/ { trace(n); exit(0); }
