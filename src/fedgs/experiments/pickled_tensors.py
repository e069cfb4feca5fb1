"""How messages between processes hold tensors.

PyTorch defines a class for each tensor that it pickles, and one for each that it reads. Such a
class refers to itself and to the tensor. So the memory becomes free only when the garbage collector
looks for cycles, which the package's own processes do rarely.
"""

from typing import TYPE_CHECKING, Any

from fedgs.arrays import AnyArray

if TYPE_CHECKING:
    import torch

__all__ = ["reduced_tensor"]


def reduced_tensor(tensor: "torch.Tensor") -> Any:
    """What `reducer_override` of a pickler returns for a tensor: its bytes, type and shape.

    Tensors on a GPU, with gradients, of other classes or with gaps in memory are left to PyTorch.
    """
    import torch

    is_plain = (
        type(tensor) is torch.Tensor
        and tensor.device.type == "cpu"
        and tensor.layout == torch.strided
        and tensor.is_contiguous()
        and not (tensor.requires_grad or tensor.is_quantized or tensor.is_conj() or tensor.is_neg())
        and not tensor.__dict__
    )
    if not is_plain:
        return NotImplemented
    content = tensor.reshape(-1).view(torch.uint8).numpy()
    return _tensor, (content, tensor.dtype, tuple(tensor.shape))


def _tensor(content: AnyArray, dtype: "torch.dtype", shape: tuple[int, ...]) -> "torch.Tensor":
    import torch

    # A copy, since memory of PyTorch begins at a multiple of 64 bytes.
    return torch.from_numpy(content).clone().view(dtype).reshape(shape)
