"""Named tuples of arrays that compiled code passes as one pointer.

Numba passes a tuple by value: some seven hundred machine words for a state, copied at every call
and spelled out in the intermediate code of each. By reference the kernels compile several times
faster, and a call costs nothing. A named tuple cannot change, so neither can what is pointed at.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.imputils import impl_ret_borrowed
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)


class Reference(types.Type):
    """The compiled type of a named tuple whose class is `by_reference`."""

    def __init__(self, pointee: types.NamedTuple) -> None:
        self.pointee = pointee
        super().__init__(f"Reference({pointee})")

    @property
    def key(self) -> types.NamedTuple:
        return self.pointee


@register_model(Reference)
class _ReferenceModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Reference) -> None:
        pointee = dmm.lookup(fe_type.pointee).get_value_type()
        super().__init__(dmm, fe_type, pointee.as_pointer())


@unbox(Reference)
def _unbox(typ: Reference, obj: Any, c: Any) -> NativeValue:
    """The tuple by value, on the stack of the wrapper that calls the kernel."""
    native = c.unbox(typ.pointee, obj)
    pointer = cgutils.alloca_once_value(c.builder, native.value)
    return NativeValue(pointer, is_error=native.is_error, cleanup=native.cleanup)


@infer_getattr
class _ReferenceAttribute(AttributeTemplate):
    key = Reference

    def generic_resolve(self, typ: Reference, attr: str) -> Any:  # type: ignore[override]
        if attr in typ.pointee.fields:
            return typ.pointee.types[typ.pointee.fields.index(attr)]
        return None


@lower_getattr_generic(Reference)
def _getattr(context: Any, builder: Any, typ: Reference, value: Any, attr: str) -> Any:
    """Reads the member, word by word, so that what is not used costs nothing.

    The loads are marked invariant: no store of a kernel can change where an array lies.
    """
    index = typ.pointee.fields.index(attr)
    pointer = cgutils.gep_inbounds(builder, value, 0, index)
    member = _load(builder, pointer)
    return impl_ret_borrowed(context, builder, typ.pointee.types[index], member)


def _load(builder: Any, pointer: Any) -> Any:
    pointee = pointer.type.pointee
    if not isinstance(pointee, (ir.LiteralStructType, ir.ArrayType)):
        loaded = builder.load(pointer)
        loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
        return loaded
    member = ir.Constant(pointee, ir.Undefined)
    for place in range(len(pointee.elements) if hasattr(pointee, "elements") else pointee.count):
        part = _load(builder, cgutils.gep_inbounds(builder, pointer, 0, place))
        member = builder.insert_value(member, part, place)
    return member


def by_reference(cls: type) -> type:
    """Makes compiled code pass the named tuples of the class, whose members are arrays or numbers,
    as one pointer."""

    @typeof_impl.register(cls)
    def _typeof(value: Any, context: Any) -> Reference | None:
        members = [typeof_impl(member, context) for member in value]
        if any(member is None for member in members):
            return None
        return Reference(types.NamedTuple(members, cls))

    return cls
