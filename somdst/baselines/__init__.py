"""The other systems of the paper's tables, each on the same pretrained encoder, trained by the same loop.

    somdst train CORPUS OUT --system trade
    somdst compare-systems CORPUS OUT --minutes 20

`catalogue.py` lists them and needs no torch; everything else here does. One file per system: it says what is as
published and what the shared encoder changes, so its figures are those of "TRADE's decoding on MiniLM", never TRADE's.
`system.py` is what all of them have in common, `feeding.py` how the encoder is fed, `heads.py` what several share.
"""
