// Writes a file of vectors for each library; see ../README.md.

import java.lang.reflect.Field;
import java.nio.file.Files;
import java.nio.file.Path;
import java.text.SimpleDateFormat;
import java.time.Clock;
import java.time.Instant;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.Date;
import java.util.List;
import java.util.concurrent.atomic.AtomicLong;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

import cn.hutool.core.lang.Snowflake;
import com.baomidou.mybatisplus.core.toolkit.Sequence;
import com.github.bingoohuang.westid.WestIdConfig;
import com.github.bingoohuang.westid.WestIdGenerator;
import com.github.f4b6a3.tsid.Tsid;
import com.github.f4b6a3.tsid.TsidFactory;
import com.github.yitter.contract.IdGeneratorOptions;
import com.github.yitter.core.SnowWorkerM1;
import com.xfvape.uid.BitsAllocator;
import com.xfvape.uid.impl.DefaultUidGenerator;
import io.hypersistence.tsid.TSID;
import me.ahoo.cosid.CosId;
import me.ahoo.cosid.snowflake.MillisecondSnowflakeId;
import me.ahoo.cosid.snowflake.MillisecondSnowflakeIdStateParser;
import me.ahoo.cosid.snowflake.SnowflakeIdState;
import org.apache.seata.common.util.IdWorker;

public class Vectors {
    static final long TWITTER_EPOCH = 1288834974657L;
    /** Milliseconds after the epoch, up to the end of 41 bits. */
    static final long[] OFFSETS = {
        3, 1_000, 86_400_000, 1L << 31, (1L << 35) + 5, (1L << 38) - 2, 1L << 39, 500_000_000_000L,
        1L << 40, 1_500_000_000_001L, 2_000_000_000_000L, (1L << 41) - 2_000,
    };

    record Vector(long id, long unixMs, long dataCenter, long worker, long sequence) {
        String json() {
            return String.format(
                "    {\"id\": \"%d\", \"unix_ms\": %d, \"data_center\": %d, \"worker\": %d, \"sequence\": %d}",
                id, unixMs, dataCenter, worker, sequence);
        }
    }

    static Path folder;

    static void write(String name, String library, String version, String layout, String fields, List<Vector> ids)
            throws Exception {
        String head = String.format(
            "{\n  \"library\": \"%s\",\n  \"version\": \"%s\",\n  \"layout\": \"%s\",\n  \"fields\": \"%s\",\n  \"ids\": [\n",
            library, version, layout, fields);
        String rows = String.join(",\n", ids.stream().map(Vector::json).toList());
        Files.writeString(folder.resolve(name + ".json"), head + rows + "\n  ]\n}\n");
    }

    public static void main(String[] args) throws Exception {
        folder = Path.of(args[0]);
        hutool();
        mybatisPlus();
        cosid();
        westid();
        yitter();
        uidGenerator();
        uidGeneratorDefault();
        tsidCreator();
        hypersistenceTsid();
        seata();
    }

    static void hutool() throws Exception {
        List<Vector> ids = new ArrayList<>();
        Snowflake parser = new Snowflake();
        for (int i = 0; i < OFFSETS.length; i++) {
            Date epoch = new Date(System.currentTimeMillis() - OFFSETS[i]);
            Snowflake generator = new Snowflake(epoch, 31 - i, i * 2, false);
            for (int n = 0; n < 4; n++) {
                long id = generator.nextId();
                ids.add(new Vector(id, parser.getGenerateDateTime(id), parser.getDataCenterId(id),
                    parser.getWorkerId(id), id & 4095));
            }
        }
        write("hutool", "cn.hutool:hutool-core", "5.8.38", "twitter",
            "Snowflake.getGenerateDateTime, getDataCenterId, getWorkerId; sequence: id & 4095", ids);
    }

    static void mybatisPlus() throws Exception {
        List<Vector> ids = new ArrayList<>();
        for (int i = 0; i < OFFSETS.length; i++) {
            long now = TWITTER_EPOCH + OFFSETS[i];
            int worker = 31 - i;
            int dataCenter = i * 2 + 1;
            Sequence generator = new Sequence(worker, dataCenter) {
                @Override protected long timeGen() { return now; }
            };
            for (int n = 0; n < 4; n++) {
                long id = generator.nextId();
                ids.add(new Vector(id, Sequence.parseIdTimestamp(id), dataCenter, worker, id & 4095));
            }
        }
        write("mybatis-plus", "com.baomidou:mybatis-plus-core", "3.5.12", "twitter",
            "Sequence.parseIdTimestamp; data centre and worker as given to Sequence; sequence: id & 4095", ids);
    }

    static void cosid() throws Exception {
        List<Vector> ids = new ArrayList<>();
        for (int i = 0; i < OFFSETS.length; i++) {
            long now = CosId.COSID_EPOCH + OFFSETS[i];
            MillisecondSnowflakeId generator = new MillisecondSnowflakeId(1023 - i * 93) {
                @Override protected long getCurrentTime() { return now; }
            };
            var parser = MillisecondSnowflakeIdStateParser.of(generator, ZoneOffset.UTC);
            for (int n = 0; n < 4; n++) {
                SnowflakeIdState state = parser.parse(generator.generate());
                ids.add(new Vector(state.getId(), state.getTimestamp().toInstant(ZoneOffset.UTC).toEpochMilli(),
                    0, state.getMachineId(), state.getSequence()));
            }
        }
        write("cosid", "me.ahoo.cosid:cosid-core", "2.13.0", "cosid", "MillisecondSnowflakeIdStateParser.parse", ids);
    }

    static void westid() throws Exception {
        List<Vector> ids = new ArrayList<>();
        WestIdConfig config = new WestIdConfig(1490346283706L, 10, 12);
        for (int i = 0; i < OFFSETS.length; i++) {
            long now = config.getEpoch() + OFFSETS[i];
            WestIdGenerator generator = new WestIdGenerator(config, 1023 - i * 93) {
                @Override protected long currentTimeMillis() { return now; }
            };
            for (int n = 0; n < 4; n++) {
                long id = generator.next();
                ids.add(new Vector(id, (id >> generator.getTimestampShift()) + config.getEpoch(), 0,
                    id >> generator.getWorkerIdShift() & config.getMaxWorkerId(), id & generator.getSequenceMask()));
                generator.setSequence(n == 1 ? 4000 : generator.getSequence());
            }
        }
        write("westid", "com.github.bingoohuang:westid", "0.0.3", "westid",
            "the generator's own epoch, shifts and masks", ids);
    }

    static void yitter() throws Exception {
        List<Vector> ids = new ArrayList<>();
        long[] offsets = {1_000, 86_400_000, 1L << 35, 1L << 40, (1L << 41) + 7, 1L << 45, (1L << 51) - 2_000};
        for (int i = 0; i < offsets.length; i++) {
            long[] now = {offsets[i]};
            IdGeneratorOptions options = new IdGeneratorOptions((short) (63 - i * 9));
            SnowWorkerM1 generator = new SnowWorkerM1(options) {
                @Override protected long GetCurrentTimeTick() { return now[0]; }
            };
            for (int n = 0; n < (i == 2 ? 61 : 4); n++) {
                long id = generator.nextId();
                if (n < 4 || n > 56) ids.add(yitter(id, options));
            }
            now[0] += 10;
            ids.add(yitter(generator.nextId(), options));
            now[0] -= 5;
            ids.add(yitter(generator.nextId(), options));
            ids.add(yitter(generator.nextId(), options));
        }
        write("yitter-java", "com.github.yitter:yitter-idgenerator", "1.0.6", "yitter",
            "the options' own BaseTime and bit lengths", ids);
    }

    static Vector yitter(long id, IdGeneratorOptions options) {
        int shift = options.SeqBitLength + options.WorkerIdBitLength;
        return new Vector(id, (id >> shift) + options.BaseTime, 0,
            id >> options.SeqBitLength & (1 << options.WorkerIdBitLength) - 1,
            id & (1 << options.SeqBitLength) - 1);
    }

    static void uidGenerator() throws Exception {
        List<Vector> ids = new ArrayList<>();
        DefaultUidGenerator generator = new DefaultUidGenerator();
        generator.setTimeBits(29);
        generator.setWorkerBits(21);
        generator.setSeqBits(13);
        generator.setEpochStr("2016-09-20");
        generator.setWorkerIdAssigner(() -> 1_234_567);
        generator.afterPropertiesSet();
        for (int n = 0; n < 4; n++) {
            ids.add(uid(generator, generator.getUID()));
        }
        BitsAllocator allocator = new BitsAllocator(29, 21, 13);
        long[] seconds = {1, 59, 86_400, 1L << 20, 31_536_000, 100_000_000, 1L << 28, 400_000_000, (1L << 29) - 1};
        allocate(generator, allocator, seconds, ids);
        write("uid-generator", "com.xfvape.uid:uid-generator", "0.0.4-RELEASE", "baidu-uid",
            "DefaultUidGenerator.parseUID", ids);
    }

    /** IDs at these seconds, of workers and sequence numbers from the largest down. */
    static void allocate(DefaultUidGenerator generator, BitsAllocator allocator, long[] seconds, List<Vector> ids) {
        for (int i = 0; i < seconds.length; i++) {
            for (int n = 0; n < 4; n++) {
                long worker = (allocator.getMaxWorkerId() - i * 100_003L) >> n * 5;
                ids.add(uid(generator, allocator.allocate(seconds[i], worker, allocator.getMaxSequence() >> n * 4)));
            }
        }
    }

    /** As in the code: 28, 22 and 13 bits from 2016-05-20. */
    static void uidGeneratorDefault() throws Exception {
        List<Vector> ids = new ArrayList<>();
        DefaultUidGenerator generator = new DefaultUidGenerator();
        generator.setWorkerIdAssigner(() -> 1);
        generator.afterPropertiesSet();
        BitsAllocator allocator = new BitsAllocator(28, 22, 13);
        long[] seconds = {1, 59, 86_400, 1L << 20, 31_536_000, 100_000_000, 200_000_000, (1L << 28) - 1};
        allocate(generator, allocator, seconds, ids);
        write("uid-generator-default", "com.xfvape.uid:uid-generator", "0.0.4-RELEASE", "baidu-uid-default",
            "DefaultUidGenerator.parseUID", ids);
    }

    static void tsidCreator() throws Exception {
        List<Vector> ids = new ArrayList<>();
        for (int i = 0; i < OFFSETS.length; i++) {
            long now = Tsid.TSID_EPOCH + OFFSETS[i];
            int node = 1023 - i * 93;
            TsidFactory factory = TsidFactory.builder().withNode(node).withTimeFunction(() -> now).build();
            for (int n = 0; n < 4; n++) {
                Tsid id = factory.create();
                ids.add(new Vector(id.toLong(), id.getUnixMilliseconds(), 0, node, id.toLong() & 4095));
            }
        }
        write("tsid-creator", "com.github.f4b6a3:tsid-creator", "5.2.6", "tsid",
            "Tsid.getUnixMilliseconds; node as given to the factory; counter: id & 4095", ids);
    }

    static void hypersistenceTsid() throws Exception {
        List<Vector> ids = new ArrayList<>();
        for (int i = 0; i < OFFSETS.length; i++) {
            long now = TSID.TSID_EPOCH + OFFSETS[i];
            int node = 1023 - i * 93;
            TSID.Factory factory = TSID.Factory.builder().withNode(node)
                .withClock(Clock.fixed(Instant.ofEpochMilli(now), ZoneOffset.UTC)).build();
            for (int n = 0; n < 4; n++) {
                TSID id = factory.generate();
                ids.add(new Vector(id.toLong(), id.getUnixMilliseconds(), 0, node, id.toLong() & 4095));
            }
        }
        write("hypersistence-tsid", "io.hypersistence:hypersistence-tsid", "2.1.4", "tsid",
            "TSID.getUnixMilliseconds; node as given to the factory; counter: id & 4095", ids);
    }

    static Object get(Object object, String name) throws Exception {
        Field field = object.getClass().getDeclaredField(name);
        field.setAccessible(true);
        return field.get(object);
    }

    static void seata() throws Exception {
        List<Vector> ids = new ArrayList<>();
        for (int i = 0; i < OFFSETS.length; i++) {
            IdWorker generator = new IdWorker(1023L - i * 93);
            int sequenceBits = (int) get(generator, "sequenceBits");
            int timestampBits = (int) get(generator, "timestampBits");
            if (i > 0) {
                ((AtomicLong) get(generator, "timestampAndSequence")).set(OFFSETS[i] << sequenceBits);
            }
            for (int n = 0; n < 4; n++) {
                long id = generator.nextId();
                long time = id >> sequenceBits & (1L << timestampBits) - 1;
                ids.add(new Vector(id, time + (long) get(generator, "twepoch"), 0,
                    id >> timestampBits + sequenceBits, id & (1L << sequenceBits) - 1));
            }
        }
        write("seata", "org.apache.seata:seata-common", "2.2.0", "seata", "the generator's own twepoch and widths", ids);
    }

    static final Pattern PARSED = Pattern.compile(
        "\"timestamp\":\"([^\"]+)\",\"workerId\":\"(\\d+)\",\"sequence\":\"(\\d+)\"");

    static Vector uid(DefaultUidGenerator generator, long id) throws Exception {
        String text = generator.parseUID(id);
        Matcher parsed = PARSED.matcher(text);
        if (!parsed.find()) throw new IllegalStateException(text);
        long unixMs = new SimpleDateFormat("yyyy-MM-dd HH:mm:ss").parse(parsed.group(1)).getTime();
        return new Vector(id, unixMs, 0, Long.parseLong(parsed.group(2)), Long.parseLong(parsed.group(3)));
    }
}
