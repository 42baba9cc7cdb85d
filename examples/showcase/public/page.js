// Starts every part of the page. Each part is a file of its own, named like the Ruby file that answers it.

import { prepareCache } from "./cache.js";
import { listen } from "./figures.js";
import { prepareComparison } from "./comparison.js";
import { prepareDNS } from "./dns.js";
import { prepareHold } from "./hold.js";
import { prepareIdle } from "./idle.js";
import { prepareLive } from "./live.js";
import { prepareLog } from "./log.js";
import { preparePoem } from "./poem.js";
import { prepareReadings } from "./readings.js";
import { prepareTalk } from "./talk.js";
import { prepareSource } from "./source.js";
import { prepareUpload } from "./upload.js";
import { prepareWaiting } from "./waiting.js";

listen();
prepareComparison();
prepareCache();
prepareDNS();
prepareIdle();
prepareHold();
preparePoem();
prepareReadings();
prepareUpload();
prepareLog();
prepareLive();
prepareTalk();
prepareWaiting();
prepareSource();
