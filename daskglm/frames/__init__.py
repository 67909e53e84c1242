"""Tables with names: a schema that is learned in one pass, rows by codes of categories."""
