"""Values in registers: what each record computes, whatever language it is written in."""
