"""ONNX files as users of transformers and ONNX Runtime make them."""

import warnings


def write_onnx(folder):
    """Writes a folder's `checkpoint` as `plain.onnx`, and fused by ONNX Runtime's BERT optimizer as `model.onnx`."""
    import torch
    import transformers

    # The fusion only supports the graph of eager attention.
    torch_model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder / "checkpoint", attn_implementation="eager", dtype=torch.float32
    ).eval()
    names = ["input_ids", "attention_mask", "token_type_ids"]
    tokens = transformers.AutoTokenizer.from_pretrained(folder / "checkpoint")(
        ["A text.", "A longer text."], padding=True, return_tensors="pt"
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # It recommends a newer exporter, whose graph the fusion does not support.
        torch.onnx.export(
            _logits(torch_model),
            tuple(tokens[name] for name in names),
            folder / "plain.onnx",
            input_names=names,
            output_names=["logits"],
            dynamic_axes={name: {0: "batch", 1: "length"} for name in names} | {"logits": {0: "batch"}},
            opset_version=17,
            dynamo=False,
        )
    config = torch_model.config
    found = fused(folder / "plain.onnx", folder / "model.onnx", config.num_attention_heads, config.hidden_size)
    assert found["Attention"] == config.num_hidden_layers


def fused(path, output, num_heads, hidden_size):
    """Writes the file that ONNX Runtime's BERT optimizer makes of another one; returns the numbers of fused ops."""
    from onnxruntime.transformers import optimizer

    # The session applies the general optimizations.
    model = optimizer.optimize_model(
        str(path), model_type="bert", num_heads=num_heads, hidden_size=hidden_size, opt_level=0
    )
    model.save_model_to_file(str(output))
    return model.get_fused_operator_statistics()


def quantized(path, output):
    """Writes a file in int8, with ranges of activations for each batch and scales of weights for each channel."""
    from onnxruntime import quantization

    quantization.quantize_dynamic(
        path,
        output,
        per_channel=True,
        weight_type=quantization.QuantType.QInt8,
        extra_options={"DefaultTensorType": 1},  # Float: it does not know the outputs of fused ops.
    )


def _logits(model):
    """Wraps the model as a module with three positional inputs."""
    import torch

    class Logits(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, ids, mask, segments):
            return self.model(input_ids=ids, attention_mask=mask, token_type_ids=segments).logits

    return Logits().eval()
