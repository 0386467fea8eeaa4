/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nri.h - NRI (containerd's Node Resource Interface) for container runtimes and engines in C.
 *
 * A runtime reports the events of pods and containers, and passes each new config.json through
 * nri_create_container(). The library launches plugins, accepts external ones, merges their
 * replies, and returns the adjusted config.json. It never calls a low-level runtime, and changes
 * neither files nor cgroups of containers.
 *
 * Texts are UTF-8 and end with NUL. Parameters are only read until the function returns. A text
 * that the library returns belongs to the caller, who frees it with nri_free(). Messages are JSON,
 * in the form that protocol buffers define (lowerCamelCase, 64-bit numbers as text or number).
 *
 * Functions return an enum nri_result. On failure they set *error to one line that says what failed
 * and, where a plugin is to blame, names the plugin and the field; error may be NULL. Results are
 * set only on success.
 *
 * Threads: every function may be called by any thread, and by several at the same time, except that
 * nri_shutdown() must be the last one. Events of one container must follow one another. The library
 * has threads of its own: a child of fork() must not use it before it executes a program. Plugins
 * are children of the process, so it must neither wait for any child (waitpid(-1, ...)) nor ignore
 * SIGCHLD.
 */
#ifndef NRI_H
#define NRI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum nri_result {
	NRI_OK = 0,
	NRI_INVALID = 1, /* an argument, or a pod or container that is unknown or exists already */
	NRI_REFUSED = 2, /* a plugin refused, or plugins contradict one another */
	NRI_FAILED = 3,  /* the host, or an update function */
	NRI_PANIC = 4,   /* a defect of the library */
};

/* Events for nri_event(), numbered as in the protocol. */
enum nri_event_kind {
	NRI_RUN_POD_SANDBOX = 1, /* may be refused: the pod is then unknown */
	NRI_STOP_POD_SANDBOX = 2,
	NRI_REMOVE_POD_SANDBOX = 3,
	NRI_POST_CREATE_CONTAINER = 5,
	NRI_START_CONTAINER = 6, /* may be refused: stop and remove the container then */
	NRI_POST_START_CONTAINER = 7,
	NRI_POST_UPDATE_CONTAINER = 9,
	NRI_STOP_CONTAINER = 10,
	NRI_REMOVE_CONTAINER = 11,
	NRI_UPDATE_POD_SANDBOX = 12, /* may be refused */
	NRI_POST_UPDATE_POD_SANDBOX = 13,
};

typedef struct nri nri;

/*
 * What plugins request. Called by threads of the library, possibly several at the same time, also
 * while another function waits for plugins: they must not wait for a lock that is held then.
 * Functions of this header fail with NRI_INVALID inside of them.
 *
 * nri_update_fn: changes resources of a container. resources is linux.resources of an OCI config
 * with the changed fields alone, as "runc update --resources" takes it. Returns 0 or an errno.
 * nri_evict_fn: stops a container that a plugin evicts. Returns 0 or an errno.
 * nri_output_fn: a line that a launched plugin ("NN-name") wrote to its standard output or error.
 */
typedef int nri_update_fn(void *data, const char *container, const char *resources);
typedef int nri_evict_fn(void *data, const char *container, const char *reason);
typedef void nri_output_fn(void *data, const char *plugin, const char *line);

/* Facts about the host for nri_lookup_fn, each with what name is, and the JSON text to return. */
enum nri_fact {
	NRI_BLOCKIO_CLASS = 1,     /* a block I/O class: its linux.resources.blockIO */
	NRI_RDT_CLASS = 2,         /* an RDT class: its linux.intelRdt */
	NRI_CDI_SPECS = 3,         /* empty: a list of all CDI specifications, see below */
	NRI_DEVICE = 4,            /* a path: type, major, minor and fileMode, as in linux.devices */
	NRI_MOUNT_PROPAGATION = 5, /* a path: "private", "shared" or "slave", of the mount there */
};

/*
 * nri_lookup_fn: returns a fact that an adjustment or update of a plugin needs, as JSON in memory
 * of malloc(), which the library frees. NULL, or a text of another form, means unknown: the request
 * is refused, and the error names plugin and field. It is called by any thread, under the rules
 * above, and should return at once, since other events may wait for it. Later versions may have
 * more values of fact, for which it returns NULL.
 *
 * A CDI specification is an object with path, for errors; priority, the position of its directory
 * in the list of directories, of which a later one has precedence; and content, the object in the
 * file. A device completes specifications that leave out its type, numbers or mode; symbolic links
 * are not followed.
 */
typedef char *nri_lookup_fn(void *data, int fact, const char *name);

/* Options of nri_start(). Set all to 0, then size and what is wanted. Paths are absolute. If the
 * directory of the socket is missing, it is created (mode 0700), but none above it. */
struct nri_options {
	size_t size;                   /* sizeof(struct nri_options) */
	const char *runtime_name;      /* name of the runtime, sent to plugins; not NULL */
	const char *runtime_version;   /* its version */
	const char *plugin_dir;        /* plugins to launch; NULL: /opt/nri/plugins, "": none */
	const char *plugin_config_dir; /* their configurations; NULL: /etc/nri/conf.d */
	const char *socket;            /* external plugins; NULL: /var/run/nri/nri.sock, "": none */
	uint32_t registration_timeout_ms; /* 0: 5000 */
	uint32_t request_timeout_ms;      /* 0: 2000 */
	const char *state;     /* pods and containers from before, of nri_state(); NULL: none */
	nri_update_fn *update; /* NULL: updates by plugins fail */
	nri_evict_fn *evict;   /* NULL: evictions fail */
	nri_output_fn *output; /* NULL: output of plugins is dropped */
	nri_lookup_fn *lookup; /* NULL: nothing is known of the host */
	void *data;            /* first argument of the four functions */
};

/* Launches the plugins and accepts external ones. Returns when each launched plugin is active or
 * has failed; see nri_plugins(). */
int nri_start(const struct nri_options *options, nri **nri, char **error);

/*
 * Calls the plugins for a new container. container is a Container of the protocol, of which id,
 * podSandboxId, name, labels, annotations, image and createdAt are used; its pod must run. config
 * is the text of its config.json. Sets *adjusted to the text to create the container with.
 *
 * If it fails, the container is unknown to plugins. If the low-level runtime fails afterwards, send
 * NRI_STOP_CONTAINER and NRI_REMOVE_CONTAINER.
 */
int nri_create_container(const nri *nri, const char *container, const char *config,
			 char **adjusted, char **error);

/* Calls the plugins for an update of a container. resources is linux.resources of an OCI config
 * with the fields to change. Sets *adjusted to the resources to update the container with. */
int nri_update_container(const nri *nri, const char *id, const char *resources, char **adjusted,
			 char **error);

/*
 * Sends an event, an enum nri_event_kind. message is a PodSandbox of the protocol for events of
 * pods, and a Container for the others. For NRI_RUN_POD_SANDBOX it has all that plugins shall know
 * of the pod. Otherwise id is enough, and the library adds the rest; these fields replace what was
 * known: pid and ips of a pod; linux.podOverhead and linux.podResources for NRI_UPDATE_POD_SANDBOX;
 * pid, createdAt, startedAt, finishedAt, exitCode, statusReason and statusMessage of a container.
 */
int nri_event(const nri *nri, int kind, const char *message, char **error);

/* Sets *state to the pods and containers, for the options of the next nri_start(). */
int nri_state(const nri *nri, char **state, char **error);

/* Sets *plugins to a list of objects with id ("NN-name"), launched (a path), pid, active and
 * lastError; what is unknown is null. */
int nri_plugins(const nri *nri, char **plugins, char **error);

/* Ends launched plugins, disconnects the others, and frees nri, which may be NULL. */
int nri_shutdown(nri *nri);

/* Frees a text of the library, which may be NULL. */
void nri_free(char *text);

/* Returns the version of the library, which need not be freed. */
const char *nri_version(void);

#ifdef __cplusplus
}
#endif

#endif
