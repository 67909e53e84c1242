"""How far a point can be from the optimum: bounds, and what rounding does to them."""
