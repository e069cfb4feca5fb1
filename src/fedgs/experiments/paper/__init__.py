"""The paper's tables and figures, each from one command: `fedgs reproduce NAME`.

A module is named after the tables and figures that it makes; `catalogue` finds it by NAME. Each
declares an `Experiment`: what it runs or computes, and how the stored records are rendered. `frame`
does the rest, for all experiments alike, called by `frame.run.reproduce`:

    Options                              the command line                   frame.request
       | ExperimentRequest.of
    ExperimentRequest                    data, modes, rows, rounds, seeds   frame.request
       |_________________________________
       | Experiment.plan                 | Experiment.computations
    PlannedRun                           Computation                        frame.planning
       | trained, unless it is stored    | computed, unless it is stored
    StoredRun, in runs/                  a file in computed/                frame.store
       | read_records                    | read_records
    LoadedRun                            Computed                           frame.experiment
       |_________________________________|
    ExperimentRecords
       | Experiment.render
    Rendering                            tables, verdict, figures           frame.experiment

`frame.training` and `frame.computing` carry out what is missing, `frame.writing` writes the files.
A planned, stored and loaded run share their cell of the table: data and mode (`frame.conditions`)
and `MethodRow` (`frame.rows`). The `Manifest` (NAME-DATA.json) holds the request and the names of
the stored runs and results, so that a rendering is a function of the folder alone. `frame.page`
renders all manifests of a folder as one page, with the `frame.facts` of each. Renderings are made
of `frame.tables` and the verdicts of `frame.sentences`, and `frame.published` holds the paper's
figures.
"""
