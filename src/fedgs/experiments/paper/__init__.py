"""The paper's tables and figures, each from one command: `fedgs reproduce NAME`.

`published` holds the paper's figures, `request` what a command line asks for, `store` what is kept of an experiment, `carry_out`
the way from the one to the other; the other modules declare a group of experiments each. Tables are functions of stored records.
"""
