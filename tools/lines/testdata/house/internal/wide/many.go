package wide

// Many has 26 methods, of which one is promoted.
type Many interface {
	One
	A()
	B()
	C()
	D()
	E()
	F()
	G()
	H()
	I()
	J()
	K()
	L()
	M()
	N()
	O()
	P()
	Q()
	R()
	S()
	T()
	U()
	V()
	W()
	X()
	y()
}

// One has one.
type One interface{ Z() }
