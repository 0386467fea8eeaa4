/* An engine in C with NRI, on top of runc: engine BUNDLE ID PLUGINS CONFIGS SOCKET. Creates and
 * starts the container of a bundle, waits until it ends, deletes it, and exits with its exit code.
 * The variable RUNC names the low-level runtime. */
#include <errno.h>
#include <nri.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static void fail(const char *what, char *error)
{
	fprintf(stderr, "engine: %s: %s\n", what, error ? error : "failed");
	nri_free(error);
}

/* Runs runc with arguments, and input on its standard input. */
static int runc(const char *input, const char *format, ...)
{
	char arguments[2048], command[4096];
	const char *program = getenv("RUNC");
	va_list list;
	va_start(list, format);
	vsnprintf(arguments, sizeof(arguments), format, list);
	va_end(list);
	snprintf(command, sizeof(command), "%s %s", program ? program : "runc", arguments);
	FILE *pipe = popen(command, "we");
	if (!pipe)
		return -1;
	fputs(input, pipe);
	return pclose(pipe);
}

/* nri_update_fn: a plugin wants other resources. */
static int update(void *data, const char *container, const char *resources)
{
	(void)data;
	return runc(resources, "update --resources - %s", container) ? EIO : 0;
}

/* Reads a file, or writes it if text is not NULL. */
static char *file(const char *dir, const char *name, const char *text)
{
	static char buffer[1 << 20];
	char path[4096];
	snprintf(path, sizeof(path), "%s/%s", dir, name);
	FILE *stream = fopen(path, text ? "we" : "re");
	if (!stream)
		return NULL;
	if (text)
		fputs(text, stream);
	else
		buffer[fread(buffer, 1, sizeof(buffer) - 1, stream)] = '\0';
	return fclose(stream) ? NULL : buffer;
}

/* Sends an event about a pod or container, whose name is its id. */
static int event(nri *nri, int kind, const char *id, const char *field, int value)
{
	char message[1024], *error = NULL;
	snprintf(message, sizeof(message), "{\"id\": \"%s\", \"name\": \"%s\", \"%s\": %d}", id,
		 id, field, value);
	int result = nri_event(nri, kind, message, &error);
	if (result)
		fail(message, error);
	return result;
}

/* Runs the container from its creation to its end. Returns its exit code. */
static int run(nri *nri, const char *bundle, const char *id)
{
	char message[1024], *adjusted, *text, *error = NULL;
	int status = 0;
	snprintf(message, sizeof(message),
		 "{\"id\": \"%s\", \"podSandboxId\": \"%s\", \"name\": \"%s\"}", id, id, id);
	text = file(bundle, "config.json", NULL);
	if (nri_create_container(nri, message, text, &adjusted, &error)) {
		fail("creation", error);
		return 125;
	}
	file(bundle, "config.json", adjusted);
	nri_free(adjusted);
	int failed = runc("", "create --bundle %s --pid-file %s/pid %s", bundle, bundle, id);
	text = file(bundle, "pid", NULL);
	int pid = text ? atoi(text) : 0;
	if (failed || event(nri, NRI_POST_CREATE_CONTAINER, id, "pid", pid) ||
	    event(nri, NRI_START_CONTAINER, id, "pid", pid) || runc("", "start %s", id))
		status = 125 << 8;
	else if (!event(nri, NRI_POST_START_CONTAINER, id, "pid", pid))
		waitpid(pid, &status, 0); /* a child of this process, a subreaper */
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	event(nri, NRI_STOP_CONTAINER, id, "exitCode", code);
	runc("", "delete --force %s", id);
	event(nri, NRI_REMOVE_CONTAINER, id, "exitCode", code);
	return code;
}

int main(int argc, char **argv)
{
	if (argc != 6)
		return fprintf(stderr, "usage: engine BUNDLE ID PLUGINS CONFIGS SOCKET\n"), 2;
	struct nri_options options = {
		.size = sizeof(options), .runtime_name = "example", .runtime_version = "1.0",
		.plugin_dir = argv[3], .plugin_config_dir = argv[4], .socket = argv[5],
		.update = update,
	};
	nri *nri;
	char *error = NULL;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (nri_start(&options, &nri, &error))
		return fail("start", error), 125;
	int code = 125;
	if (!event(nri, NRI_RUN_POD_SANDBOX, argv[2], "pid", 0)) {
		code = run(nri, argv[1], argv[2]);
		event(nri, NRI_STOP_POD_SANDBOX, argv[2], "pid", 0);
		event(nri, NRI_REMOVE_POD_SANDBOX, argv[2], "pid", 0);
	}
	nri_shutdown(nri);
	return code;
}
