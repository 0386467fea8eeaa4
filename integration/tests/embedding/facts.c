/* An engine that knows its host: facts PLUGINS CONFIGS ID... Creates containers, and prints for each
 * the adjusted config.json or the error. Before, it prints each lookup and whether it has an answer.
 */
#include <nri.h>
#include <stdio.h>
#include <string.h>

static const struct {
	int fact;
	const char *name, *answer;
} facts[] = {
	{ NRI_BLOCKIO_CLASS, "slow", "{\"weight\": 100}" },
	{ NRI_BLOCKIO_CLASS, "broken", "{" },
	{ NRI_RDT_CLASS, "gold", "{\"closID\": \"g\"}" },
	{ NRI_CDI_SPECS, "",
	  "[{\"path\": \"/cdi/low.json\", \"priority\": 0, \"content\": {\"cdiVersion\": \"0.6.0\","
	  "  \"kind\": \"example.org/gpu\", \"devices\": [{\"name\": \"0\", \"containerEdits\": {"
	  "    \"env\": [\"GPU=low\"]}}]}},"
	  " {\"path\": \"/cdi/high.json\", \"priority\": 1, \"content\": {\"cdiVersion\": \"0.6.0\","
	  "  \"kind\": \"example.org/gpu\", \"devices\": [{\"name\": \"0\", \"containerEdits\": {"
	  "    \"env\": [\"GPU=high\"], \"deviceNodes\": [{\"path\": \"/dev/gpu\"}]}}]}}]" },
	{ NRI_DEVICE, "/dev/gpu",
	  "{\"type\": \"c\", \"major\": 240, \"minor\": 7, \"fileMode\": 432}" },
	{ NRI_MOUNT_PROPAGATION, "/shared", "\"shared\"" },
};

static char *lookup(void *data, int fact, const char *name)
{
	char *answer = NULL;
	for (size_t i = 0; i < sizeof(facts) / sizeof(facts[0]); i++)
		if (facts[i].fact == fact && !strcmp(facts[i].name, name))
			answer = strdup(facts[i].answer);
	/* A function of the library cannot wait for plugins here. */
	int code = nri_state(data, NULL, NULL);
	printf("lookup %d %s: %s %d\n", fact, name, answer ? "known" : "unknown", code);
	return answer;
}

int main(int argc, char **argv)
{
	nri *nri = NULL;
	char *text = NULL, *error = NULL, message[1024];
	struct nri_options options = {
		.size = sizeof(options), .runtime_name = "example", .plugin_dir = argv[1],
		.plugin_config_dir = argv[2], .socket = "", .lookup = lookup,
	};
	if (nri_start(&options, &nri, &error) ||
	    nri_event(nri, NRI_RUN_POD_SANDBOX, "{\"id\": \"p\"}", &error))
		return fprintf(stderr, "%s\n", error), 1;
	for (int i = 3; i < argc; i++) {
		snprintf(message, sizeof(message), "{\"id\": \"%s\", \"podSandboxId\": \"p\"}",
			 argv[i]);
		int code = nri_create_container(nri, message, "{}", &text, &error);
		printf("%s %d %s\n", argv[i], code, code ? error : text);
		nri_free(code ? error : text);
	}
	return nri_shutdown(nri);
}
