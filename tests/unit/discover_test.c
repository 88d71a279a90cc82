/* SPDX-License-Identifier: Apache-2.0 */
/* Environments as launchers leave them, and what is made of each. Those of Open MPI, MPICH and
 * Slurm were recorded from the real ones and cut to what matters; the others follow their
 * documentation.
 *
 * behaviour: discover / Finding a place */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "discover/discover.h"

#define X MST_PLACE_UNKNOWN

struct scene {
    const char *name;
    const char *environment; /* "A=1\nB=2\n" */
    const char *host;
    enum mst_asker asker;
    enum mst_launcher launcher;
    enum mst_trap trap;
    uint32_t rank, size, local_rank, local_size, node_rank, node_count;
    const char *job, *first; /* NULL: none */
    const char *why;         /* is in the line */
};

struct variables {
    const char *text;
    char kept[64][256]; /* an answer stays until the end, as the environment's do */
    unsigned count;
};

static bool read_file(void *ctx, const char *path, char *text, size_t room)
{
    (void)ctx;
    if (strcmp(path, "/spool/hosts") == 0) {
        (void)snprintf(text, room, "batch4\nc5\nc5\nc6\n");
    } else if (strcmp(path, "/spool/one") == 0) {
        (void)snprintf(text, room, "batch4");
    } else {
        return false;
    }
    return true;
}

static const char *get(void *ctx, const char *name)
{
    struct variables *variables = ctx;
    size_t length = strlen(name);

    for (const char *line = variables->text; *line; line = strchr(line, '\n') + 1) {
        if (strncmp(line, name, length) == 0 && line[length] == '=') {
            size_t size = (size_t)(strchr(line, '\n') - line) - length - 1;
            char *copy = variables->kept[variables->count++ % 64];

            assert_true(size < sizeof variables->kept[0]);
            memcpy(copy, line + length + 1, size);
            copy[size] = '\0';
            return copy;
        }
    }
    return NULL;
}

#define OPENMPI4                                                                                   \
    "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\nOMPI_COMM_WORLD_LOCAL_RANK=1\n"               \
    "OMPI_COMM_WORLD_LOCAL_SIZE=2\nOMPI_COMM_WORLD_NODE_RANK=7\nPMIX_RANK=1\n"                     \
    "PMIX_NAMESPACE=203292673\n"
#define HNP "OMPI_MCA_orte_hnp_uri=203292672.0;tcp://192.0.2.2:56615;tcp6://[fd00::2]:41671\n"
#define MPICH "PMI_RANK=3\nPMI_SIZE=4\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=2\nPMI_FD=8\n"
#define SLURM_JOB                                                                                  \
    "SLURM_JOB_ID=12\nSLURM_NNODES=3\nSLURM_NTASKS=14\nSLURM_TASKS_PER_NODE=6(x2),2\n"             \
    "SLURM_JOB_NODELIST=a[08-10]\nSLURM_LAUNCH_NODE_IPADDR=192.0.2.9\n"
#define SLURM_STEP                                                                                 \
    SLURM_JOB "SLURM_STEP_ID=3\nSLURM_PROCID=13\nSLURM_LOCALID=1\nSLURM_NODEID=2\n"                \
              "SLURM_STEP_NUM_TASKS=14\nSLURM_STEP_NUM_NODES=3\nSLURM_STEP_NODELIST=a[08-10]\n"    \
              "SLURM_STEP_TASKS_PER_NODE=6(x2),2\n"
/* mpirun's daemon on the second of two nodes was started by srun as task 0 of 1. */
#define SLURM_DAEMON                                                                               \
    "SLURM_JOB_ID=12\nSLURM_NTASKS=4\nSLURM_STEP_ID=0\nSLURM_PROCID=0\nSLURM_STEP_NUM_TASKS=1\n"   \
    "SLURM_STEP_NODELIST=a2\nSLURM_NODEID=0\nSLURM_STEP_TASKS_PER_NODE=1\n"
#define SLURM_BATCH SLURM_JOB "SLURM_PROCID=0\nSLURM_LOCALID=0\nSLURM_NODEID=0\nSLURM_TASK_PID=44\n"
#define TORCHRUN                                                                                   \
    "TORCHELASTIC_RUN_ID=run7\nRANK=5\nWORLD_SIZE=8\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=4\n"           \
    "GROUP_RANK=1\nGROUP_WORLD_SIZE=2\nMASTER_ADDR=node0\nMASTER_PORT=29500\n"
#define TPU                                                                                        \
    "TPU_WORKER_ID=1\nTPU_WORKER_HOSTNAMES=t-0.svc,t-1.svc\nMEGASCALE_NUM_SLICES=2\n"              \
    "MEGASCALE_SLICE_ID=1\nMEGASCALE_COORDINATOR_ADDRESS=t-0.svc:8080\n"
#define POD "JOB_COMPLETION_INDEX=2\nKUBERNETES_SERVICE_HOST=10.0.0.1\n"

static const struct scene scenes[] = {
    /* ---- one per row ---- */
    {.name = "none",
     .environment = "HOME=/root\n",
     .launcher = MST_LAUNCHER_NONE,
     .rank = 0,
     .size = 1,
     .local_rank = 0,
     .local_size = 1,
     .node_rank = 0,
     .node_count = 1,
     .why = "a process on its own"},
    {.name = "muster",
     .environment = "MUSTER_INDEX=3\nMUSTER_SIZE=4\nMUSTER_NODE=1\n"
                    "MUSTER_JOB=train\nMUSTER_ADDR=node0:7777\n" SLURM_STEP,
     .launcher = MST_LAUNCHER_MUSTER,
     .rank = 3,
     .size = 4,
     .local_rank = X,
     .local_size = X,
     .node_rank = 1,
     .node_count = X,
     .job = "train",
     .first = "node0",
     .why = "MUSTER_INDEX=3"},
    {.name = "muster without a size",
     .environment = "MUSTER_INDEX=0\n",
     .launcher = MST_LAUNCHER_MUSTER,
     .rank = 0,
     .size = X,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X},
    {.name = "a place beyond the size is a spare's",
     .environment = "MUSTER_INDEX=4\nMUSTER_SIZE=4\n",
     .launcher = MST_LAUNCHER_MUSTER,
     .rank = 4,
     .size = 4,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X},
    {.name = "torchrun",
     .environment = TORCHRUN,
     .launcher = MST_LAUNCHER_TORCHRUN,
     .rank = 5,
     .size = 8,
     .local_rank = 1,
     .local_size = 4,
     .node_rank = 1,
     .node_count = 2,
     .job = "torchrun-run7",
     .first = "node0",
     .why = "RANK=5"},
    {.name = "torchrun's variables by hand",
     .environment = "RANK=1\nWORLD_SIZE=2\nMASTER_ADDR=node0\nMASTER_PORT=2\n",
     .launcher = MST_LAUNCHER_TORCHRUN,
     .rank = 1,
     .size = 2,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X,
     .job = "torchrun-node0-2",
     .first = "node0"},
    {.name = "Open MPI 4",
     .environment = OPENMPI4 HNP,
     .launcher = MST_LAUNCHER_OPENMPI,
     .rank = 1,
     .size = 2,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 0,
     .node_count = 1,
     .job = "openmpi-203292673",
     .first = "192.0.2.2"},
    {.name = "Open MPI 5 has no orte",
     .environment = OPENMPI4,
     .launcher = MST_LAUNCHER_OPENMPI,
     .rank = 1,
     .size = 2,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 0,
     .node_count = 1,
     .job = "openmpi-203292673"},
    {.name = "MVAPICH",
     .environment = "MV2_COMM_WORLD_RANK=2\nMV2_COMM_WORLD_SIZE=4\nMV2_COMM_WORLD_LOCAL_RANK=0\n"
                    "MV2_COMM_WORLD_LOCAL_SIZE=2\nPMI_RANK=2\nPMI_SIZE=4\n",
     .launcher = MST_LAUNCHER_MVAPICH,
     .rank = 2,
     .size = 4,
     .local_rank = 0,
     .local_size = 2,
     .node_rank = X,
     .node_count = X},
    {.name = "MPICH",
     .environment = MPICH,
     .launcher = MST_LAUNCHER_HYDRA,
     .rank = 3,
     .size = 4,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = X,
     .node_count = X,
     .why = "PMI_RANK=3"},
    {.name = "PALS",
     .environment = "PALS_RANKID=2\nPALS_SIZE=4\nPALS_LOCAL_RANKID=0\nPALS_LOCAL_SIZE=2\n"
                    "PALS_NODEID=1\nPALS_APID=0a-1\n",
     .launcher = MST_LAUNCHER_PALS,
     .rank = 2,
     .size = 4,
     .local_rank = 0,
     .local_size = 2,
     .node_rank = 1,
     .node_count = X,
     .job = "pals-0a-1"},
    {.name = "PALS with the size of PMI",
     .environment = "PALS_RANKID=2\nPMI_SIZE=4\nPALS_LOCAL_RANKID=0\nPALS_LOCAL_SIZE=2\n"
                    "PALS_NODEID=1\nPALS_APID=0a-1\n",
     .launcher = MST_LAUNCHER_PALS,
     .rank = 2,
     .size = 4,
     .local_rank = 0,
     .local_size = 2,
     .node_rank = 1,
     .node_count = X,
     .job = "pals-0a-1"},
    {.name = "PMI under PALS: the rank of one, the rest of the other",
     .environment = "PMI_RANK=2\nPMI_SIZE=4\nPALS_RANKID=2\nPALS_LOCAL_RANKID=0\n"
                    "PALS_LOCAL_SIZE=2\nPALS_NODEID=1\nPALS_APID=0a-1\n",
     .launcher = MST_LAUNCHER_HYDRA,
     .rank = 2,
     .size = 4,
     .local_rank = 0,
     .local_size = 2,
     .node_rank = 1,
     .node_count = X,
     .job = "pals-0a-1"},
    {.name = "jsrun: the hosts' first line is the launch node",
     .environment = "JSM_NAMESPACE_RANK=2\nJSM_NAMESPACE_SIZE=4\nLSB_JOBID=77\n"
                    "LSB_DJOB_RANKFILE=/spool/hosts\n",
     .launcher = MST_LAUNCHER_JSRUN,
     .rank = 2,
     .size = 4,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X,
     .job = "jsrun-77",
     .first = "c5"},
    {.name = "jsrun: nothing but the launch node is no host of ranks",
     .environment = "JSM_NAMESPACE_RANK=2\nJSM_NAMESPACE_SIZE=4\n"
                    "LSB_DJOB_RANKFILE=/spool/one\n",
     .launcher = MST_LAUNCHER_JSRUN,
     .rank = 2,
     .size = 4,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X},
    {.name = "jsrun",
     .environment = "JSM_NAMESPACE_RANK=2\nJSM_NAMESPACE_SIZE=4\nJSM_NAMESPACE_LOCAL_RANK=0\n"
                    "LSB_JOBID=77\n",
     .launcher = MST_LAUNCHER_JSRUN,
     .rank = 2,
     .size = 4,
     .local_rank = 0,
     .local_size = X,
     .node_rank = X,
     .node_count = X,
     .job = "jsrun-77"},
    {.name = "Flux",
     .environment = "FLUX_TASK_RANK=2\nFLUX_JOB_SIZE=4\nFLUX_TASK_LOCAL_ID=0\nFLUX_JOB_ID=f9Xy\n",
     .launcher = MST_LAUNCHER_FLUX,
     .rank = 2,
     .size = 4,
     .local_rank = 0,
     .local_size = X,
     .node_rank = X,
     .node_count = X,
     .job = "flux-f9Xy"},
    {.name = "Flux on one node, which speaks PMI too",
     .environment = "PMI_RANK=2\nPMI_SIZE=4\nFLUX_TASK_RANK=2\nFLUX_JOB_SIZE=4\n"
                    "FLUX_JOB_NNODES=1\nFLUX_JOB_ID=f9Xy\n",
     .launcher = MST_LAUNCHER_HYDRA,
     .rank = 2,
     .size = 4,
     .local_rank = 2,
     .local_size = 4,
     .node_rank = 0,
     .node_count = 1,
     .job = "flux-f9Xy"},
    {.name = "PMIx with a size from the user",
     .environment = "PMIX_RANK=1\nPMIX_NAMESPACE=prte.1\nMUSTER_SIZE=3\n",
     .launcher = MST_LAUNCHER_PMIX,
     .rank = 1,
     .size = 3,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X,
     .job = "pmix-prte.1"},
    {.name = "Slurm",
     .environment = SLURM_STEP,
     .launcher = MST_LAUNCHER_SLURM,
     .rank = 13,
     .size = 14,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 2,
     .node_count = 3,
     .job = "slurm-12.3",
     .first = "a08",
     .why = "Slurm: SLURM_PROCID=13: rank 13 of 14, local rank 1 of 2, node 2 of 3"},
    {.name = "Slurm on one node",
     .environment = "SLURM_JOB_ID=1\nSLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_STEP_NODELIST=sim01\n"
                    "SLURM_NTASKS=2\nSLURM_LOCALID=1\nSLURM_NODEID=0\n"
                    "SLURM_STEP_TASKS_PER_NODE=2\n",
     .launcher = MST_LAUNCHER_SLURM,
     .rank = 1,
     .size = 2,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 0,
     .node_count = 1,
     .job = "slurm-1.0",
     .first = "sim01"},
    {.name = "a heterogeneous step of Slurm is numbered through",
     .environment = "SLURM_HET_SIZE=2\nSLURM_JOB_ID=1\nSLURM_JOB_ID_PACK_GROUP_1=2\n"
                    "SLURM_STEP_ID=0\nSLURM_PROCID=2\nSLURM_NTASKS=3\nSLURM_STEP_NUM_TASKS=3\n"
                    "SLURM_STEP_NODELIST=vm,zzz2\nSLURM_STEP_NUM_NODES=2\nSLURM_NODEID=1\n"
                    "SLURM_STEP_TASKS_PER_NODE=1,2\nSLURM_LOCALID=1\n",
     .launcher = MST_LAUNCHER_SLURM,
     .rank = 2,
     .size = 3,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 1,
     .node_count = 2,
     .job = "slurm-1.0",
     .first = "vm"},
    {.name = "the user's name of the job goes before the launcher's",
     .environment = SLURM_STEP "MUSTER_JOB=mine\n",
     .launcher = MST_LAUNCHER_SLURM,
     .rank = 13,
     .size = 14,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 2,
     .node_count = 3,
     .job = "mine",
     .first = "a08"},
    {.name = "an address of IPv6",
     .environment = "MUSTER_INDEX=0\nMUSTER_ADDR=[fd00::2]:7000\n",
     .launcher = MST_LAUNCHER_MUSTER,
     .rank = 0,
     .size = X,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X,
     .first = "fd00::2"},
    {.name = "a TPU of the second slice",
     .environment = TPU POD,
     .launcher = MST_LAUNCHER_TPU,
     .rank = 3,
     .size = 4,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X,
     .first = "t-0.svc"},
    {.name = "Kubernetes",
     .environment = POD "MUSTER_SIZE=3\n",
     .host = "train-2",
     .launcher = MST_LAUNCHER_KUBERNETES,
     .rank = 2,
     .size = 3,
     .local_rank = X,
     .local_size = X,
     .node_rank = 2,
     .node_count = X,
     .job = "kubernetes-train",
     .first = "train-0"},
    {.name = "Horovod",
     .environment = "HOROVOD_RANK=1\nHOROVOD_SIZE=2\nHOROVOD_LOCAL_RANK=1\nHOROVOD_LOCAL_SIZE=2\n"
                    "HOROVOD_CROSS_RANK=0\n",
     .launcher = MST_LAUNCHER_HOROVOD,
     .rank = 1,
     .size = 2,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 0,
     .node_count = 1},

    /* ---- launchers inside each other ---- */
    {.name = "mpirun in an allocation: its daemons' step is not the rank's",
     .environment = OPENMPI4 SLURM_DAEMON,
     .launcher = MST_LAUNCHER_OPENMPI,
     .rank = 1,
     .size = 2,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 0,
     .node_count = 1,
     .job = "openmpi-203292673"},
    {.name = "mpirun in a batch script",
     .environment = MPICH SLURM_BATCH,
     .launcher = MST_LAUNCHER_HYDRA,
     .rank = 3,
     .size = 4,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = X,
     .node_count = X},
    {.name = "srun torchrun: a worker",
     .environment = TORCHRUN SLURM_STEP,
     .launcher = MST_LAUNCHER_TORCHRUN,
     .rank = 5,
     .size = 8,
     .local_rank = 1,
     .local_size = 4,
     .node_rank = 1,
     .node_count = 2,
     .job = "torchrun-run7",
     .first = "node0"},
    {.name = "srun torchrun: the agent",
     .environment = SLURM_STEP,
     .asker = MST_ASKER_AGENT,
     .launcher = MST_LAUNCHER_SLURM,
     .rank = 13,
     .size = 14,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 2,
     .node_count = 3,
     .job = "slurm-12.3",
     .first = "a08"},
    {.name = "mpirun torchrun: the second row is the agent's",
     .environment = TORCHRUN "OMPI_COMM_WORLD_RANK=1\nOMPI_COMM_WORLD_SIZE=2\n",
     .launcher = MST_LAUNCHER_TORCHRUN,
     .rank = 5,
     .size = 8,
     .local_rank = 1,
     .local_size = 4,
     .node_rank = 1,
     .node_count = 2,
     .job = "torchrun-run7",
     .first = "node0"},
    {.name = "srun --mpi=pmi2: PMI has the rank, Slurm the rest",
     .environment = "PMI_RANK=13\nPMI_SIZE=14\nPMI_JOBID=12.3\n" SLURM_STEP,
     .launcher = MST_LAUNCHER_HYDRA,
     .rank = 13,
     .size = 14,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 2,
     .node_count = 3,
     .job = "slurm-12.3",
     .first = "a08"},
    {.name = "srun --mpi=pmix: Slurm has the size",
     .environment = "PMIX_RANK=13\nPMIX_NAMESPACE=slurm.pmix.12.3\n" SLURM_STEP,
     .launcher = MST_LAUNCHER_SLURM,
     .rank = 13,
     .size = 14,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 2,
     .node_count = 3,
     .job = "slurm-12.3",
     .first = "a08"},
    {.name = "srun --mpi=pmi2 mpirun: the step's PMI is no contradiction",
     .environment = OPENMPI4 SLURM_DAEMON "PMI_RANK=0\nPMI_SIZE=1\n",
     .launcher = MST_LAUNCHER_OPENMPI,
     .rank = 1,
     .size = 2,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 0,
     .node_count = 1,
     .job = "openmpi-203292673"},
    {.name = "PALS under Slurm has no size of its own",
     .environment = "PALS_RANKID=13\nPALS_APID=1\n" SLURM_STEP,
     .launcher = MST_LAUNCHER_SLURM,
     .rank = 13,
     .size = 14,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = 2,
     .node_count = 3,
     .job = "slurm-12.3",
     .first = "a08"},
    {.name = "common names half set beside a launcher mean nothing",
     .environment = "RANK=0\nMASTER_ADDR=n\n" MPICH,
     .launcher = MST_LAUNCHER_HYDRA,
     .rank = 3,
     .size = 4,
     .local_rank = 1,
     .local_size = 2,
     .node_rank = X,
     .node_count = X},
    {.name = "an agent inside a rank is a run of its own",
     .environment = "MUSTER_INDEX=1\nMUSTER_SIZE=4\n" SLURM_STEP,
     .asker = MST_ASKER_AGENT,
     .launcher = MST_LAUNCHER_NONE,
     .rank = 0,
     .size = 1,
     .local_rank = 0,
     .local_size = 1,
     .node_rank = 0,
     .node_count = 1,
     .why = "a run of its own"},
    {.name = "an agent in a pod need not know how many there are",
     .environment = POD,
     .host = "train-2",
     .asker = MST_ASKER_AGENT,
     .launcher = MST_LAUNCHER_KUBERNETES,
     .rank = 2,
     .size = X,
     .local_rank = X,
     .local_size = X,
     .node_rank = 2,
     .node_count = X,
     .job = "kubernetes-train",
     .first = "train-0"},
    {.name = "an agent in the batch script of one node",
     .environment = "SLURM_JOB_ID=1\nSLURM_NNODES=1\nSLURM_NTASKS=4\nSLURM_TASKS_PER_NODE=4\n",
     .asker = MST_ASKER_AGENT,
     .launcher = MST_LAUNCHER_NONE,
     .rank = 0,
     .size = 1,
     .local_rank = 0,
     .local_size = 1,
     .node_rank = 0,
     .node_count = 1},
    {.name = "the batch script of one task",
     .environment = "SLURM_JOB_ID=1\nSLURM_NNODES=1\nSLURM_TASKS_PER_NODE=1\nSLURM_PROCID=0\n",
     .launcher = MST_LAUNCHER_NONE,
     .rank = 0,
     .size = 1,
     .local_rank = 0,
     .local_size = 1,
     .node_rank = 0,
     .node_count = 1},
    {.name = "lists that disagree give no local size",
     .environment = "SLURM_JOB_ID=1\nSLURM_STEP_ID=0\nSLURM_PROCID=1\nSLURM_STEP_NODELIST=b[1-\n"
                    "SLURM_STEP_NUM_TASKS=2\nSLURM_NODEID=0\nSLURM_STEP_TASKS_PER_NODE=3\n",
     .launcher = MST_LAUNCHER_SLURM,
     .rank = 1,
     .size = 2,
     .local_rank = X,
     .local_size = X,
     .node_rank = 0,
     .node_count = X,
     .job = "slurm-1.0"},
    {.name = "a job's name is made fit for a file, and stays one of its own",
     .environment = "OMPI_COMM_WORLD_RANK=0\nOMPI_COMM_WORLD_SIZE=1\n"
                    "PMIX_NAMESPACE=prterun-vm-7@1/../x\n",
     .launcher = MST_LAUNCHER_OPENMPI,
     .rank = 0,
     .size = 1,
     .local_rank = X,
     .local_size = X,
     .node_rank = X,
     .node_count = X,
     .job = "openmpi-prterun-vm-7-1-..-x-65eb56581f00f595"},

    /* ---- traps ---- */
    {.name = "a batch script outside srun",
     .environment = SLURM_BATCH,
     .launcher = MST_LAUNCHER_SLURM,
     .trap = MST_TRAP_BATCH,
     .why =
         "SLURM_JOB_ID=12, but this process is no task of srun: it is in the batch script or the "
         "shell of an allocation of 14 tasks: start it with srun, or set MUSTER_INDEX and "
         "MUSTER_SIZE (0 and 1 for a process on its own)"},
    {.name = "an interactive step",
     .environment =
         SLURM_BATCH "SLURM_STEP_ID=4294967290\nSLURM_STEP_NODELIST=a08\nSLURM_STEP_NUM_TASKS=1\n",
     .launcher = MST_LAUNCHER_SLURM,
     .trap = MST_TRAP_BATCH},
    {.name = "an agent in the batch script of three nodes",
     .environment = SLURM_BATCH,
     .asker = MST_ASKER_AGENT,
     .launcher = MST_LAUNCHER_SLURM,
     .trap = MST_TRAP_BATCH,
     .why = "an allocation of 3 nodes: start it with `srun --ntasks-per-node=1 muster run ...`, or "
            "say --nnodes 1"},
    {.name = "half set",
     .environment = "OMPI_COMM_WORLD_RANK=1\n" SLURM_STEP,
     .launcher = MST_LAUNCHER_OPENMPI,
     .trap = MST_TRAP_HALF_SET,
     .why =
         "OMPI_COMM_WORLD_RANK=1 is set, but OMPI_COMM_WORLD_SIZE is not: start the program with "
         "mpirun, or set MUSTER_INDEX and MUSTER_SIZE"},
    {.name = "half set, same rank by accident",
     .environment = "PMI_RANK=13\n" SLURM_STEP,
     .launcher = MST_LAUNCHER_HYDRA,
     .trap = MST_TRAP_HALF_SET},
    {.name = "torchrun half set",
     .environment = "RANK=1\nWORLD_SIZE=2\n",
     .launcher = MST_LAUNCHER_TORCHRUN,
     .trap = MST_TRAP_HALF_SET,
     .why = "RANK=1 is set, but MASTER_ADDR is not"},
    {.name = "a step half set",
     .environment = "SLURM_JOB_ID=1\nSLURM_STEP_ID=0\nSLURM_PROCID=0\n",
     .launcher = MST_LAUNCHER_SLURM,
     .trap = MST_TRAP_HALF_SET,
     .why = "SLURM_STEP_NODELIST"},
    {.name = "contradicting launchers",
     .environment = OPENMPI4 MPICH,
     .launcher = MST_LAUNCHER_OPENMPI,
     .trap = MST_TRAP_CONTRADICTION,
     .why = "Open MPI says rank 1 of 2 (OMPI_COMM_WORLD_RANK=1), but PMI (MPICH, Intel MPI) says "
            "rank 3 of 4 (PMI_RANK=3): unset the variables of the one that did not start this "
            "program, or set MUSTER_INDEX and MUSTER_SIZE"},
    {.name = "torchrun under an mpirun of another size",
     .environment = TORCHRUN MPICH,
     .launcher = MST_LAUNCHER_TORCHRUN,
     .trap = MST_TRAP_CONTRADICTION},
    {.name = "no number",
     .environment = "PMI_RANK=one\nPMI_SIZE=4\n",
     .launcher = MST_LAUNCHER_HYDRA,
     .trap = MST_TRAP_VALUE,
     .why = "PMI_RANK=one is no number from 0 to 1000000: correct it, or set"},
    {.name = "a negative number",
     .environment = "RANK=-1\nWORLD_SIZE=4\nMASTER_ADDR=n\n",
     .launcher = MST_LAUNCHER_TORCHRUN,
     .trap = MST_TRAP_VALUE},
    {.name = "out of range",
     .environment = "PMI_RANK=1\nPMI_SIZE=99999999999999999999999\n",
     .launcher = MST_LAUNCHER_HYDRA,
     .trap = MST_TRAP_VALUE,
     .why = "PMI_SIZE=9999999"},
    {.name = "a rank beyond the size",
     .environment = "PMI_RANK=4\nPMI_SIZE=4\n",
     .launcher = MST_LAUNCHER_HYDRA,
     .trap = MST_TRAP_VALUE,
     .why = "PMI_RANK=4 is not below PMI_SIZE=4"},
    {.name = "a local rank beyond its size",
     .environment = "PMI_RANK=1\nPMI_SIZE=4\nMPI_LOCALRANKID=2\nMPI_LOCALNRANKS=2\n",
     .launcher = MST_LAUNCHER_HYDRA,
     .trap = MST_TRAP_VALUE,
     .why = "MPI_LOCALRANKID=2"},
    {.name = "the user's own is nonsense",
     .environment = "MUSTER_INDEX=x\n" MPICH,
     .launcher = MST_LAUNCHER_MUSTER,
     .trap = MST_TRAP_VALUE,
     .why = "MUSTER_INDEX=x"},
    {.name = "PMIx without a size",
     .environment = "PMIX_RANK=1\nPMIX_NAMESPACE=prte.1\n",
     .launcher = MST_LAUNCHER_PMIX,
     .trap = MST_TRAP_NO_SIZE,
     .why =
         "PMIX_RANK=1, but PMIx does not tell how many ranks there are: set MUSTER_SIZE to their "
         "number"},
    {.name = "PMIx of prterun in an allocation: rank 0 of the daemons' step is no proof",
     .environment = "PMIX_RANK=0\nPMIX_NAMESPACE=prte.1\n" SLURM_DAEMON,
     .launcher = MST_LAUNCHER_PMIX,
     .trap = MST_TRAP_NO_SIZE},
    {.name = "an indexed Job without a size",
     .environment = POD,
     .host = "train-2",
     .launcher = MST_LAUNCHER_KUBERNETES,
     .trap = MST_TRAP_NO_SIZE,
     .why = "set MUSTER_SIZE to their number, which is the Job's `completions`"},
    {.name = "an indexed Job larger than the size",
     .environment = POD "MUSTER_SIZE=2\n",
     .launcher = MST_LAUNCHER_KUBERNETES,
     .trap = MST_TRAP_VALUE,
     .why = "JOB_COMPLETION_INDEX=2 is not below MUSTER_SIZE=2"},
    {.name = "a TPU without its slice",
     .environment = "TPU_WORKER_ID=1\nTPU_WORKER_HOSTNAMES=a,b\nMEGASCALE_NUM_SLICES=2\n",
     .launcher = MST_LAUNCHER_TPU,
     .trap = MST_TRAP_HALF_SET,
     .why = "MEGASCALE_SLICE_ID"},
    {.name = "a TPU beyond its list",
     .environment = "TPU_WORKER_ID=2\nTPU_WORKER_HOSTNAMES=a,b\n",
     .launcher = MST_LAUNCHER_TPU,
     .trap = MST_TRAP_VALUE},
};

static bool ask(struct mst_discovery *out, const struct scene *scene)
{
    struct variables variables = {.text = scene->environment};
    struct mst_discover_input input = {.get = get,
                                       .read = read_file,
                                       .ctx = &variables,
                                       .host = scene->host,
                                       .asker = scene->asker};

    return mst_discover(out, &input);
}

static void same_place(const struct mst_discovered *place, const struct scene *scene)
{
    assert_int_equal(place->rank, scene->rank);
    assert_int_equal(place->size, scene->size);
    assert_int_equal(place->local_rank, scene->local_rank);
    assert_int_equal(place->local_size, scene->local_size);
    assert_int_equal(place->node_rank, scene->node_rank);
    assert_int_equal(place->node_count, scene->node_count);
    assert_string_equal(place->job, scene->job ? scene->job : "");
    assert_string_equal(place->host, scene->first ? scene->first : "");
}

/* Any launcher of the table, alone or inside another: the first complete row wins, in a fixed
 * order. jsrun's hosts are in a file: rank 0 is looked for on the first host with ranks, as the
 * file's first line is the node that jsrun runs on. PMI gives a rank and a size, and PALS, Flux
 * or Slurm set it: the nodes, the share of this one and the job's name come from those. Two
 * launchers give different ranks, and none can be the other's agent: the place is refused,
 * naming both. */
static void every_environment(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof scenes / sizeof scenes[0]; i++) {
        const struct scene *scene = &scenes[i];
        struct mst_discovery found;
        bool answered = ask(&found, scene);

        print_message("%s: %s\n", scene->name, found.why);
        assert_int_equal(found.trap, scene->trap);
        assert_int_equal(answered, scene->trap == MST_TRAP_NONE);
        assert_int_equal(found.launcher, scene->launcher);
        assert_null(strchr(found.why, '\n'));
        assert_true(strlen(found.why) > 0);
        assert_int_not_equal(strcmp(found.why + strlen(found.why) - 3, "..."), 0);
        if (scene->why) {
            assert_non_null(strstr(found.why, scene->why));
        }
        if (answered) {
            same_place(&found.place, scene);
        }
    }
}

static void every_row_says_something(void **state)
{
    struct mst_discovery found;

    (void)state;
    (void)ask(&found, &scenes[0]);
    for (int i = 0; i < MST_LAUNCHER_NONE; i++) {
        enum mst_launcher launcher = (enum mst_launcher)i;

        assert_int_equal(found.rows[i].state, MST_ROW_ABSENT);
        assert_non_null(strstr(found.rows[i].why, "no "));
        assert_true(strlen(mst_launcher_name(launcher)) > 0);
        assert_non_null(mst_launcher_rank_variable(launcher));
    }
    assert_null(mst_launcher_rank_variable(MST_LAUNCHER_NONE));
}

/* A variable holds bytes that a terminal would obey, or is long. They come out harmless, and the
 * value does not hide the advice. [muster env] */
static void a_value_is_shown_safely(void **state)
{
    static char text[512] = "PMI_SIZE=4\nPMI_RANK=\033[31m";
    const struct scene scene = {.environment = text};
    struct mst_discovery found;

    (void)state;
    memset(text + strlen(text), 'z', 200);
    text[strlen(text)] = '\n';
    assert_false(ask(&found, &scene));
    assert_null(strchr(found.why, '\033'));
    assert_non_null(strstr(found.why, "\\x1b"));
    assert_non_null(strstr(found.why, "set MUSTER_INDEX and MUSTER_SIZE"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_environment),
        cmocka_unit_test(every_row_says_something),
        cmocka_unit_test(a_value_is_shown_safely),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
