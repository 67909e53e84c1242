"""Tables and figures of the three papers that daskglm stands on."""
