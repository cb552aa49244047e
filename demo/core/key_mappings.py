"""Renamings of weights that are published under the names of another library."""

import re


def _timm_resnet_to_transformers(backbone: str) -> dict[str, str]:
    """Renamings from timm's ResNet keys below `backbone` to those of transformers' ResNet.

    Made for `from_pretrained(key_mapping=...)`, which applies every rule that matches, one after the other, and knows
    only one back-reference. So a key goes there in two steps: layer1.0.conv2 -> encoder.stages.0.layers.0.conv2 ->
    encoder.stages.0.layers.0.layer.1.convolution. For bottleneck blocks (ResNet-50 and deeper), without a classifier.
    """
    escaped = re.escape(backbone)
    rules = {
        rf"{escaped}\.conv1": f"{backbone}.embedder.embedder.convolution",
        rf"{escaped}\.bn1": f"{backbone}.embedder.embedder.normalization",
    }
    rules |= {rf"{escaped}\.layer{n}": f"{backbone}.encoder.stages.{n - 1}.layers" for n in (1, 2, 3, 4)}
    block = rf"({escaped}\.encoder\.stages\.\d+\.layers\.\d+)"
    for n in (1, 2, 3):
        rules[rf"{block}\.conv{n}"] = rf"\1.layer.{n - 1}.convolution"
        rules[rf"{block}\.bn{n}"] = rf"\1.layer.{n - 1}.normalization"
    rules[rf"{block}\.downsample\.0"] = r"\1.shortcut.convolution"
    rules[rf"{block}\.downsample\.1"] = r"\1.shortcut.normalization"
    return rules


KEY_MAPPINGS: dict[str, dict[str, str]] = {
    # Published with a timm backbone only. Loaded with the shipped config, which builds the same ResNet-50 from
    # transformers, and with these renamings. The DETRs need none: their `no_timm` revision already has such keys.
    "microsoft/conditional-detr-resnet-50": _timm_resnet_to_transformers("backbone.conv_encoder.model"),
}
